"""What a team hands in for the IWSLT simultaneous task: the bundle, its image, its validator."""
