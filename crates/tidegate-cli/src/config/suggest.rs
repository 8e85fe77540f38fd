/// What the known names are, and which of them was probably meant.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    let closest = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => "nothing can be set here".to_owned(),
        None => format!("known are {}", quoted(known)),
    }
}

/// `a`, `b`, `c`.
pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_gets_a_suggestion_and_anything_else_the_list() {
        let known = ["path", "format", "follow"];
        assert_eq!(suggestion("pth", &known), "did you mean `path`?");
        assert_eq!(suggestion("fromat", &known), "did you mean `format`?");
        assert_eq!(suggestion("table", &known), "known are `path`, `format`, `follow`");
        assert_eq!(suggestion("x", &[]), "nothing can be set here");
    }
}
