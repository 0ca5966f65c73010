"""What can be said against a recorded conversation without asking anybody anything: one small function for each rule."""
