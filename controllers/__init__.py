"""The bundled controller: scales queue workers and flips budgets. Knows no Pulumi, imports the vocabulary alone."""
