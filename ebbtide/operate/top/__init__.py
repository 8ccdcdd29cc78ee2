"""What a stack uses at this moment: read (`facts`), put together (`view`, pure) and laid out (`text`)."""
