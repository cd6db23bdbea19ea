"""The product around the method: readers, studies, commands, reports, figures."""
