//! One word per thing: finds the words that ARCHITECTURE.md replaced by others.

/// Words not to use, what to say instead, and where they may stand all the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) banned: String,
    pub(crate) wanted: String,
    except: Vec<String>,
}

/// Reads lines `banned -> wanted` and `banned, banned -> wanted except folder folder`.
pub(crate) fn rules(lines: &[&str]) -> Result<Vec<Rule>, String> {
    let read: Result<Vec<_>, String> = lines.iter().map(|line| rules_of(line)).collect();
    Ok(read?.into_iter().flatten().collect())
}

fn rules_of(line: &str) -> Result<Vec<Rule>, String> {
    let (banned, rest) =
        line.split_once("->").ok_or(format!("`{line}` is not of the form `banned -> wanted`"))?;
    let (wanted, except) = rest.split_once(" except ").unwrap_or((rest, ""));
    let except: Vec<_> = except.split_whitespace().map(str::to_owned).collect();
    let rule = |word: &str| Rule {
        banned: word.trim().to_lowercase(),
        wanted: wanted.trim().to_owned(),
        except: except.clone(),
    };
    Ok(banned.split(',').map(rule).collect())
}

/// The lines of a file where a rule's word stands, counted from 1.
pub(crate) fn found(rule: &Rule, path: &str, text: &str) -> Vec<usize> {
    if rule.except.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let banned = parts(&rule.banned);
    let has = |line: &str| identifiers(line).any(|identifier| says(&parts(identifier), &banned));
    text.lines().enumerate().filter(|(_, line)| has(line)).map(|(index, _)| index + 1).collect()
}

/// True when the parts of an identifier hold the banned ones in a row; a plural counts.
fn says(identifier: &[String], banned: &[String]) -> bool {
    let same = |(part, word): (&String, &String)| part == word || part.strip_suffix('s') == Some(word);
    identifier.windows(banned.len().max(1)).any(|window| window.iter().zip(banned).all(same))
}

fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

/// The words of an identifier: `HubScore_of` is `hub`, `score`, `of`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let letters: Vec<char> = identifier.chars().collect();
    for (index, &letter) in letters.iter().enumerate() {
        let after_small = index > 0 && letters[index - 1].is_lowercase();
        let before_small = letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if letter == '_' || letter.is_uppercase() && (after_small || before_small) {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("there is always a part").extend(letter.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_with(rule: &str, text: &str) -> Vec<usize> {
        let rules = rules(&[rule]).expect("the rule has the form");
        rules.iter().flat_map(|rule| found(rule, "index/src/lib.rs", text)).collect()
    }

    #[test]
    fn words_are_found_inside_identifiers_and_in_the_plural() {
        let text = "pail\nfillPail\nPAIL_SIZE\npails\npailful\n// a Pail.\n\"spail\"\n";
        assert_eq!(lines_with("pail -> vessel", text), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn a_word_of_two_parts_needs_both_in_a_row() {
        assert_eq!(
            lines_with("pail_size -> volume", "pail_size\nPailSize\npail_of_size\nsize_pail\n"),
            [1, 2]
        );
    }

    #[test]
    fn a_rule_may_name_two_words_and_a_place_where_they_are_spoken() {
        assert_eq!(lines_with("pail, jug -> vessel", "pail\njug\n"), [1, 2]);
        assert!(lines_with("pail -> vessel except index/src", "pail\n").is_empty());
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        assert!(rules(&["pail vessel"]).is_err());
    }

    #[test]
    fn acronyms_are_one_part() {
        assert_eq!(parts("HTTPServer_x2"), ["http", "server", "x2"]);
    }
}
