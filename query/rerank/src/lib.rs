//! Rerankers and adapters trained on frozen vectors: losses, models, training, scoring.
