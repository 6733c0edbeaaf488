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
        "<code>corelet fit data.csv --target late",
    ];
    assert!(places.map(at).is_sorted(), "{:?}", places.map(at));
    // A picture for each of five parameters, ellipses, leverages and the path; each has a name.
    assert_eq!(page.matches("role=\"img\"").count(), 8);
    assert_eq!(page.matches("<svg aria-label=").count(), 8);
    if let Some(dom) = rendered(&place, "report.html") {
        assert!(dom.contains("A - trusted") && dom.matches("role=\"img\"").count() == 8);
    }
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
