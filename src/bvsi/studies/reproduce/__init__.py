"""The paper's studies as commands: data, fits, tables, figures, a page that shows them."""
