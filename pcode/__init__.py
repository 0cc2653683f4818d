"""AMD pseudocode: grammar, AST, typed IR, errata and the numpy oracle."""
