//! The HTML reports of `build` and `fit`, in a real browser where there is one.

use std::path::Path;
use std::process::Command;

use crate::common::{Place, place_with_data};

const MODEL: &str = "--target late --features a,b,kind";

/// What a browser makes of the page, or none where there is no browser.
fn rendered(place: &Place, name: &str) -> Option<String> {
    let browser = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = browser.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: there is no Chromium to look at {name} with (Debian: apt-get install chromium)");
        return None;
    };
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", place.path("browser").display()))
        .args(["--window-size=400,900", "--dump-dom"])
        .arg(format!("file://{}", place.path(name).display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Nothing in the page may be fetched from elsewhere.
fn stands_alone(page: &str) {
    for part in ["src=\"http", "href=\"http", "@import", "<script", "<link"] {
        assert!(!page.contains(part), "{part}");
    }
    // And a browser would refuse to, whatever the cells of the data say.
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"), "{page}");
}

#[test]
fn a_fit_has_its_verdict_on_top() {
    let place = place_with_data(400);
    place.succeed(&format!(
        "fit data.csv {MODEL} -k 60 --warmup 100 --draws 250 -o draws.parquet --report report.html"
    ));
    let page = place.read("report.html");
    stands_alone(&page);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(at("A - trusted") < at("<svg"));
    for text in [
        "coreset, sampled",
        "leverage",
        "sd ratio",
        "seed",
        "90 % interval",
        "R-hat",
        "prefers-color-scheme: dark",
    ] {
        at(text);
    }
    // The grade, the estimates, the pictures, the rows, the command, in this order.
    let places = [
        "class=\"grade\">A<",
        "(intercept)",
        "<svg",
        "The rows with the largest weights",
        "<h2>Does the model fit?",
        "<code>corelet fit data.csv \\\n    --target late",
    ];
    assert!(places.map(at).is_sorted(), "{:?}", places.map(at));
    // A picture for each of five parameters, ellipses, leverages, the path and probabilities; each has a name.
    assert_eq!(page.matches("role=\"img\"").count(), 9);
    assert_eq!(page.matches("<svg aria-label=").count(), 9);
    assert!(page.contains("predicted probability") && page.contains("Nothing is far off"));
    if let Some(dom) = rendered(&place, "report.html") {
        assert!(dom.contains("A - trusted") && dom.matches("role=\"img\"").count() == 9);
    }
}

#[test]
fn a_fit_of_counts_has_the_places_of_outcomes() {
    let place = place_with_data(400);
    place.succeed(
        "fit data.csv --model poisson --target count --features a,b,kind --exposure hours -k 60 --warmup 200 --draws 250 -o draws.parquet \
         --report report.html",
    );
    let page = place.read("report.html");
    stands_alone(&page);
    assert!(page.contains("predictive quantile of the outcome") && page.contains("Does the model fit?"));
}

#[test]
fn a_review_goes_by_a_column_and_has_the_evidence() {
    let place = place_with_data(600);
    let model = "--model poisson --target count --features a,b --exposure hours";
    place.succeed(&format!("fit data.csv {model} -k 60 --warmup 300 --draws 500 -o draws.parquet"));
    let said = place
        .succeed(&format!("review draws.parquet data.csv {model} --by kind --evidence --json review.json"));
    assert!(said.contains("by level") && said.contains("log evidence"), "{said}");
    let json = place.json("review.json");
    let levels = json["by"].as_array().unwrap();
    assert_eq!(levels.len(), 3);
    let rows: u64 = levels.iter().map(|level| level["rows"].as_u64().unwrap()).sum();
    assert_eq!(rows, 600);
    assert!(
        json["log_evidence"][0].as_f64().unwrap() < 0.0 && json["log_evidence"][1].as_f64().unwrap() > 0.0
    );
    let output = place.run(&format!("review draws.parquet data.csv {model} --by nowhere"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("nowhere"), "{said}");
}

#[test]
fn a_build_says_that_there_is_no_verdict() {
    let place = place_with_data(200);
    place.succeed(&format!("build data.csv {MODEL} -k 20 -o core.csv --report report.html"));
    let page = place.read("report.html");
    stands_alone(&page);
    assert!(page.contains("there is no verdict") && page.contains("all rows, Gaussian fit"));
    assert!(page.contains("90 % interval") && !page.contains("<th scope=\"col\">R-hat"), "{page}");
    if let Some(dom) = rendered(&place, "report.html") {
        assert!(dom.contains("there is no verdict"));
    }
}

#[test]
fn names_from_the_data_are_escaped() {
    let place = Place::new();
    let rows: Vec<String> = (0..60).map(|i| format!("{},{}", (i * 7) % 13, i % 2)).collect();
    place.write("data.csv", format!("<b>x</b>,y\n{}\n", rows.join("\n")));
    place.succeed("build data.csv --target y -k 10 -o core.csv --report report.html");
    let page = place.read("report.html");
    assert!(page.contains("&lt;b&gt;x&lt;") && !page.contains("<b>x</b>"));
}

#[test]
fn a_path_is_drawn() {
    let place = place_with_data(200);
    place.succeed(&format!("path data.csv {MODEL} -k 20 --figure path.svg"));
    assert!(place.read("path.svg").contains("held-out draws"));
    place.succeed(&format!("path data.csv {MODEL} -k 20 --figure path.png"));
    assert!(std::fs::read(place.path("path.png")).unwrap().starts_with(b"\x89PNG"));
    let refused = place.run(&format!("path data.csv {MODEL} -k 20 --figure path.jpg"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(!place.exists("path.jpg"));
}
