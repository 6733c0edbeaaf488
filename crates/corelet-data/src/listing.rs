//! Cells and names as messages show them: short, on one line, cut to a readable number.

/// A cell or a name as a message can show it: short, and on one line.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// `'a', 'b' and 12 more`: names for a message.
pub(crate) fn list_names<S: AsRef<str>>(names: &[S]) -> String {
    list(names.iter().map(|name| format!("'{}'", excerpt(name.as_ref()))))
}

/// All of them, where every one is needed.
pub(crate) fn list_all_names<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("'{}'", excerpt(name.as_ref()))).collect::<Vec<_>>().join(", ")
}

/// Items for a message, cut to a readable number.
pub(crate) fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 20;
    let count = items.len();
    let shown = items.take(SHOWN).collect::<Vec<_>>().join(", ");
    match count {
        0 => "none".to_owned(),
        _ if count > SHOWN => format!("{shown} and {} more", count - SHOWN),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_shown_on_one_short_line() {
        assert_eq!(excerpt("a\nb"), "a b");
        assert_eq!(excerpt(&"x".repeat(50)), format!("{}...", "x".repeat(40)));
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..25).map(|i| format!("x{i}")).collect();
        assert!(list_names(&names).ends_with("'x19' and 5 more"));
        assert!(list_all_names(&names).ends_with("'x23', 'x24'"));
    }
}
