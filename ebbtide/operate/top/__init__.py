"""Current use of a stack: read (`facts`), combined (`view`, pure) and laid out (`text`)."""
