//! Grids of methods: `NNN(alpha=0.5|0.75,k=8|16)` is four.

use anyhow::bail;
use dehub_query::MethodInput;

/// Methods of a grid, at most: more are no table any more.
const METHODS_MAX: usize = 1000;

/// The methods that texts name, in their order; the last parameter of a grid changes first.
pub(super) fn expand(texts: &[String]) -> anyhow::Result<Vec<MethodInput>> {
    let mut labels: Vec<String> = Vec::new();
    for text in texts {
        for label in expand_one(text)? {
            if labels.contains(&label) {
                bail!("the method {label} is given twice");
            }
            labels.push(label);
        }
        if labels.len() > METHODS_MAX {
            bail!("-m: wanted at most {METHODS_MAX} methods in all, found {} and more", labels.len());
        }
    }
    labels.iter().map(|label| Ok(label.parse()?)).collect()
}

fn expand_one(text: &str) -> anyhow::Result<Vec<String>> {
    let Some((name, rest)) = text.split_once('(') else { return Ok(vec![text.to_owned()]) };
    // What is no list is left to the parser of methods, which says what is wrong.
    let Some(list) = rest.strip_suffix(')') else { return Ok(vec![text.to_owned()]) };
    let mut heads = vec![String::new()];
    for item in list.split(',') {
        let (names, values) = item.rsplit_once('=').map_or(("", item), |(names, values)| (names, values));
        let names = if names.is_empty() { String::new() } else { format!("{names}=") };
        let values: Vec<&str> = values.split('|').collect();
        if heads.len().saturating_mul(values.len()) > METHODS_MAX {
            bail!("-m {text}: wanted a grid of at most {METHODS_MAX} methods");
        }
        let comma = |head: &str| if head.is_empty() { "" } else { "," };
        let with = |head: &String| {
            let of_value = |value: &&str| format!("{head}{}{names}{}", comma(head), value.trim());
            values.iter().map(of_value).collect::<Vec<_>>()
        };
        heads = heads.iter().flat_map(with).collect();
    }
    Ok(heads.into_iter().map(|head| format!("{name}({head})")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_the_product_of_its_values() {
        for (text, wanted) in [
            ("IS", "IS"),
            ("IS(beta=5|10)", "IS(beta=5) IS(beta=10)"),
            (
                "NNN(alpha=0.5|1,k=8|16)",
                "NNN(alpha=0.5,k=8) NNN(alpha=0.5,k=16) NNN(alpha=1,k=8) NNN(alpha=1,k=16)",
            ),
            ("DualIS(b1=b2=5| 10)", "DualIS(b1=b2=5) DualIS(b1=b2=10)"),
            ("IS(beta", "IS(beta"),
        ] {
            assert_eq!(expand_one(text).expect(text).join(" "), wanted);
        }
        let found = expand(&["IS(beta=5|10)".to_owned(), "IS(beta=10)".to_owned()]).expect_err("twice");
        assert_eq!(found.to_string(), "the method IS(beta=10) is given twice");
        assert!(expand(&["IS(beta=5|)".to_owned()]).is_err());
        let all = vec!["1"; 40].join("|");
        assert!(expand(&[format!("NNN(alpha={all},k={all})")]).is_err());
    }
}
