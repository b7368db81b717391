//! `dehub text`.

use anyhow::{Context as _, bail};
use clap::Args;
use dehub_index::TextField;

#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// The collection.
    pub collection: String,
    /// Find points by the words of this field: `text`, a point's own text (or its payload's), or a path into payloads.
    /// Its analyzer is standard unless given: a language (english, german, …: without stop words, by stems), cjk, raw
    /// or ngram(2,3). k1 and b are BM25's, 1.2 and 0.75 unless given. May be repeated; a field there is gets what is
    /// given anew.
    #[arg(long, value_name = "NAME[=ANALYZER][,k1=X][,b=X]", value_parser = field)]
    pub field: Vec<(String, TextField)>,
    /// Find them by the words of this field no more; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub drop: Vec<String>,
}

/// Reads `NAME[=ANALYZER][,k1=X][,b=X]`.
pub(crate) fn field(text: &str) -> anyhow::Result<(String, TextField)> {
    let mut field = TextField::default();
    // An analyser may have a comma within its parentheses, and a name an equals sign within quotes.
    let (head, parameters) = match text.find(",k1=").into_iter().chain(text.find(",b=")).min() {
        Some(place) => text.split_at(place),
        None => (text, ""),
    };
    let name = match head.rsplit_once('=') {
        Some((name, analyzer)) if !analyzer.contains('"') => {
            field.analyzer = analyzer.parse()?;
            name
        }
        Some(_) | None => head,
    };
    for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
        let number = |value: &str| value.parse().with_context(|| format!("wanted a number, found {value:?}"));
        match parameter.split_once('=') {
            Some(("k1", value)) => field.k1 = number(value)?,
            Some(("b", value)) => field.b = number(value)?,
            Some(_) | None => bail!("wanted k1=NUMBER or b=NUMBER, found {parameter:?}"),
        }
    }
    field.check()?;
    Ok((name.to_owned(), field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_with_what_is_said_of_it() {
        for (text, name, analyzer, k1, b) in [
            ("text", "text", "standard", 1.2, 0.75),
            ("text=english", "text", "english", 1.2, 0.75),
            ("a.b[]=ngram(2,3),b=0.4,k1=0.9", "a.b[]", "ngram(2,3)", 0.9, 0.4),
            ("title,k1=2", "title", "standard", 2.0, 0.75),
            ("\"x=y\"=cjk", "\"x=y\"", "cjk", 1.2, 0.75),
            ("\"x=y\"", "\"x=y\"", "standard", 1.2, 0.75),
        ] {
            let (found, field) = field(text).expect(text);
            assert_eq!((found.as_str(), field.analyzer.to_string()), (name, analyzer.to_owned()), "{text}");
            assert_eq!((field.k1, field.b), (k1, b), "{text}");
        }
        for bad in
            ["text=klingon", "text,k1=x", "text,b=2", "text,k1=-1", "text,k1=1,c=2", "text=english,b=NaN"]
        {
            assert!(field(bad).is_err(), "{bad}");
        }
    }
}
