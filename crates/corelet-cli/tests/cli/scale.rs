//! Rows in parts, on a pipe and beyond memory: the coreset of one file in memory, to the byte.

use crate::common::{Place, place_with_data, stderr};

const FLAGS: &str = "--target late --features a,b,kind -k 20 -o core.csv";

/// Cuts `data.csv` into three parts in the folder `parts`.
fn cut(place: &Place) {
    let text = place.read("data.csv");
    let (header, rows) = text.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    std::fs::create_dir(place.path("parts")).unwrap();
    for (at, rows) in [&rows[..700], &rows[700..701], &rows[701..]].iter().enumerate() {
        place.write(&format!("parts/{at}.csv"), format!("{header}\n{}\n", rows.join("\n")));
    }
}

fn coreset(place: &Place, line: &str) -> String {
    place.succeed(&format!("build {line} {FLAGS}"));
    place.read("core.csv")
}

#[test]
fn parts_and_pipes_give_the_coreset_of_one_file() {
    let place = place_with_data(2000);
    cut(&place);
    let whole = coreset(&place, "data.csv");
    for parts in ["parts", "parts/*.csv", "parts/0.csv parts/1.csv parts/2.csv"] {
        assert_eq!(coreset(&place, parts), whole, "{parts}");
    }
    let piped = place.run_with_input(&format!("build - {FLAGS}"), &place.read("data.csv"));
    assert!(piped.status.success(), "{}", stderr(&piped));
    assert_eq!(place.read("core.csv"), whole);
    let refused = place.run("build parts --target late -k 20 -o parts/1.csv");
    assert!(stderr(&refused).contains("it would overwrite an input"), "{}", stderr(&refused));
}
