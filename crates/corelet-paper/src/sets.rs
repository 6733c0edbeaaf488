//! The data sets of the paper: which are generated, which are files, and where the files come from.

use std::path::{Path, PathBuf};

use corelet::model::BuiltIn;

/// Where the posteriors of the trials of a set come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regression on one table: trials differ in the draws.
    Regression(BuiltIn),
    /// The mean of a Gaussian: each trial has data of its own.
    GaussianMean,
    /// Radial basis functions: each trial has a sub-sample and centres of its own.
    RadialBasis,
}

/// A data set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Set {
    /// The name in settings and tables.
    pub(crate) name: &'static str,
    /// What figures call it.
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    /// The file in the folder of data, where there is one.
    file: Option<&'static str>,
    /// The rows to generate where the file is not there; `None` where it cannot be generated.
    generated: Option<usize>,
    /// Where the file comes from.
    origin: &'static str,
}

const CAMPBELL: &str = "github.com/trevorcampbell/bayesian-coresets, examples/data";

const fn regression(name: &'static str, label: &'static str, model: BuiltIn, file: &'static str) -> Set {
    Set { name, label, kind: Kind::Regression(model), file: Some(file), generated: None, origin: CAMPBELL }
}

const SETS: [Set; 10] = [
    Set { generated: Some(500), ..regression("synth_lr", "synthetic", BuiltIn::Logistic, "synth_lr.npz") },
    regression("phishing", "phishing", BuiltIn::Logistic, "phishing.npz"),
    regression("ds1", "chemical reactivities", BuiltIn::Logistic, "ds1.npz"),
    Set {
        generated: Some(500),
        ..regression("synth_poiss", "synthetic", BuiltIn::Poisson, "synth_poiss.npz")
    },
    regression("biketrips", "bike trips", BuiltIn::Poisson, "biketrips.npz"),
    regression("airportdelays", "airport delays", BuiltIn::Poisson, "airportdelays.npz"),
    Set {
        generated: Some(9000),
        ..regression("synth_lr_large", "large synthetic", BuiltIn::Logistic, "synth_lr_large.npz")
    },
    Set {
        origin: "the LIBSVM collection, binary/phishing, saved as phishing.libsvm",
        ..regression("phishing_original", "original phishing", BuiltIn::Logistic, "phishing.libsvm")
    },
    Set {
        name: "gaussian",
        label: "Gaussian mean",
        kind: Kind::GaussianMean,
        file: None,
        generated: Some(600),
        origin: "",
    },
    Set {
        name: "uk_prices",
        label: "UK house prices",
        kind: Kind::RadialBasis,
        file: Some("uk_prices_latlon_2018.npy"),
        generated: None,
        origin: "the UK land registry's price-paid data of 2018 joined to the Geonames postal codes, as a NumPy array \
                 of latitude, longitude and price",
    },
];

/// Where the rows of a set come from in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    /// So many rows, by this program.
    Generated(usize),
}

impl Source {
    /// What cells call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => {
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            }
            Self::Generated(_) => "generated".to_owned(),
        }
    }
}

impl Set {
    /// The set of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        SETS.into_iter().find(|set| set.name == name)
    }

    /// The file where the folder has it, else generated rows; or what is missing and where to get it.
    pub(crate) fn source(&self, folder: Option<&Path>) -> Result<Source, String> {
        let path = folder.zip(self.file).map(|(folder, file)| folder.join(file));
        match (path, self.generated) {
            (Some(path), _) if path.is_file() => Ok(Source::File(path)),
            (_, Some(rows)) => Ok(Source::Generated(rows)),
            (path, None) => Err(self.missing(path.as_deref())),
        }
    }

    fn missing(&self, path: Option<&Path>) -> String {
        let file = self.file.unwrap_or_default();
        let what = match path {
            Some(path) => format!("{} is not there", path.display()),
            None => format!("{file} is needed, and neither --data nor CORELET_DATA names a folder with it"),
        };
        format!("{}: {what}; it comes from {}", self.name, self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_its_origin() {
        let folder = tempfile::tempdir().unwrap();
        let set = Set::named("phishing").unwrap();
        let message = set.source(Some(folder.path())).unwrap_err();
        assert!(message.contains("phishing.npz is not there") && message.contains("bayesian-coresets"));
        assert!(set.source(None).unwrap_err().contains("--data"));
        let synthetic = Set::named("synth_lr").unwrap();
        assert_eq!(synthetic.source(Some(folder.path())), Ok(Source::Generated(500)));
        std::fs::write(folder.path().join("synth_lr.npz"), "x").unwrap();
        assert_eq!(synthetic.source(Some(folder.path())).unwrap().name(), "synth_lr.npz");
    }
}
