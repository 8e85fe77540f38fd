use jaq_json::{Num, Val};

/// How many bytes the value's JSON has, more or less. It takes a look at every part of it.
pub(crate) fn approximate_bytes(value: &Val) -> usize {
    match value {
        Val::Null | Val::Bool(_) | Val::Num(Num::Int(_)) => 4,
        Val::Num(Num::Float(_) | Num::BigInt(_)) => 12,
        Val::Num(Num::Dec(digits)) => digits.len(),
        Val::TStr(text) | Val::BStr(text) => text.len() + 2,
        Val::Arr(items) => 2 + items.iter().map(|item| approximate_bytes(item) + 1).sum::<usize>(),
        Val::Obj(fields) => {
            let field = |(key, field)| approximate_bytes(key) + approximate_bytes(field) + 2;
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode_json;
    use super::*;

    #[test]
    fn the_size_is_about_that_of_the_text() {
        for text in [r#"{"a":"some text","b":[1234,5678,9012,3.25],"c":null}"#, "[]", "\"x\""] {
            let size = approximate_bytes(&decode_json(text.as_bytes()).unwrap());
            assert!(size.abs_diff(text.len()) <= text.len() / 4, "{text}: {size}");
        }
    }
}
