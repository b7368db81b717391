//! Texts, analysed and ranked.
