"""The figures, one module each: ``run(bench)`` measures and puts values on the sheet."""
