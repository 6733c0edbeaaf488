//! Lists of names in one text, as commands take them.

use std::str::FromStr;

use crate::scan::split::Records;

/// Names with commas between them; one that has a comma itself stands in double quotes, as in CSV.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameList(pub Vec<String>);

impl FromStr for NameList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut names = Vec::new();
        let mut records = Records::new(text.as_bytes(), b',');
        let each = |field: std::borrow::Cow<'_, [u8]>| {
            names.push(String::from_utf8_lossy(&field).trim().to_owned());
        };
        match records.next(each) {
            Ok(_) if records.position() == text.len() => Ok(Self(names)),
            _ => Err(format!("'{text}' is not a list of names; one with a comma stands in double quotes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_commas() {
        let list = |text: &str| text.parse::<NameList>().map(|list| list.0);
        assert_eq!(list("a, b,c d"), Ok(["a", "b", "c d"].map(str::to_owned).to_vec()));
        assert_eq!(list("\"a,b\",c"), Ok(["a,b", "c"].map(str::to_owned).to_vec()));
        assert_eq!(list(""), Ok(Vec::new()));
        assert!(list("\"a,b").is_err() && list("a\nb").is_err());
    }
}
