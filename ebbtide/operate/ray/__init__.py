"""Ray clusters: read (`facts`), combined (`view`, pure), laid out (`text`) and changed (`applying`)."""
