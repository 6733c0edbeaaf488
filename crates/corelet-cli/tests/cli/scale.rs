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

#[test]
fn rows_beyond_memory_give_the_same_coreset_and_leave_nothing() {
    let place = place_with_data(3000);
    std::fs::create_dir(place.path("scratch")).unwrap();
    let before = place.files();
    for flags in ["", "--embedding draws:60", "--model poisson --target count --exposure hours"] {
        let target = if flags.contains("target") { "" } else { "--target late" };
        let build = |more: &str| {
            let line = format!("build data.csv {target} --features a,b,kind -k 20 -o core.csv --json s.json");
            place.succeed(&format!("{line} {flags} {more}"));
            (place.read("core.csv"), place.json("s.json")["kl_forward"].clone())
        };
        assert!(build("") == build("--memory 1kB --scratch scratch"), "{flags}");
        assert!(build("--memory 1GiB") == build("--memory 0"), "{flags}");
    }
    assert_eq!(std::fs::read_dir(place.path("scratch")).unwrap().count(), 0);
    assert_eq!(place.files().len(), before.len() + 2);
}

#[test]
fn a_scratch_folder_that_cannot_be_used_is_refused() {
    let place = place_with_data(200);
    let refused = place.run(&format!("build data.csv {FLAGS} --memory 1kB --scratch none"));
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(
        message.starts_with("error: none: the scratch file: ") && message.lines().count() == 1,
        "{message}"
    );
    assert!(
        message.contains("cannot be written there") && message.contains("--scratch DIR names another folder")
    );
    // A pipe is kept there too.
    let text = std::fs::read_to_string(place.path("data.csv")).unwrap();
    let refused = place.run_with_input(&format!("build - {FLAGS} --scratch none"), &text);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).starts_with("error: none: the scratch file: there is no such folder"));
    let usage = place.run(&format!("build data.csv {FLAGS} --memory much"));
    assert_eq!(usage.status.code(), Some(2));
    assert!(stderr(&usage).contains("it must be a size such as 4GiB"), "{}", stderr(&usage));
}
