"""Steps of training as lines tell them that are alike but for their numbers."""
