"""The methods of expressions, a family a file; `Expr` has them all."""
