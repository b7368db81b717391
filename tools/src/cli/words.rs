//! What a search asks of words, and of its own first answers.

use clap::Args;
use dehub_query::{FEEDBACK_DEPTH_DEFAULT, Feedback, LIMIT_MAX, Source};

use super::{FusionArgs, weighted_field};

#[derive(Debug, Args)]
pub(crate) struct WordArgs {
    /// Find points by these words, in the text fields that `dehub text` sets.
    #[arg(long, value_name = "WORDS", required_unless_present_any = ["vector", "id", "queries"])]
    pub text: Option<String>,
    /// A text field to look in, with the weight of its score [default: all, with weight 1]; may be repeated.
    #[arg(long, value_name = "NAME[=WEIGHT]", requires = "text", value_parser = weighted_field)]
    pub field: Vec<(String, f32)>,
    /// Find only points that have all of the words in one field.
    #[arg(long, requires = "text")]
    pub all_words: bool,
    /// Find points by --text and by --vector, --id or --queries, and fuse the two.
    #[arg(long, requires = "text", requires = "source")]
    pub hybrid: bool,
    #[command(flatten)]
    pub fusing: FusionArgs,
    /// Show the parts of texts that have the words.
    #[arg(long, requires = "text")]
    pub highlight: bool,
    /// Take the first answers for relevant, move the query towards their mean, which counts half of it, and search
    /// again; 3 of them unless it is said.
    #[arg(long, value_name = "DEPTH", num_args = 0..=1, default_missing_value = "3", requires = "source",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub feedback: Option<u32>,
}

const _: () = assert!(FEEDBACK_DEPTH_DEFAULT == 3 && LIMIT_MAX == 65_536, "the help says so");

impl WordArgs {
    /// The query with the feedback that is asked for, if one is.
    pub(crate) fn feedback(&self, source: &Source) -> Option<Feedback> {
        let feedback = |depth| Feedback { depth, ..Feedback::new(source.clone()) };
        self.feedback.map(|depth| feedback(depth as usize))
    }
}
