"""From evidence to a result: layers and times priced, judged and put beside their roofline, from files alone."""
