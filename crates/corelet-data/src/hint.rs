//! Advice that comes with an error, in terms of settings: how a setting is spelled belongs to each front end.

/// A setting that may help, and what it would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The name of the setting, in snake case.
    pub setting: &'static str,
    /// The value to give it; a switch has none.
    pub value: Option<String>,
    /// What that does, as the rest of a sentence: `leaves those rows out`.
    pub effect: &'static str,
}

impl Hint {
    /// A switch.
    pub fn switch(setting: &'static str, effect: &'static str) -> Self {
        Self { setting, value: None, effect }
    }

    /// A setting with a value.
    pub fn value(setting: &'static str, value: impl Into<String>, effect: &'static str) -> Self {
        Self { setting, value: Some(value.into()), effect }
    }
}
