module shims

go 1.26.0
