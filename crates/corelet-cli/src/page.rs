//! Pages: sections of text, tables and figures as one HTML file that needs no network.

use anyhow::Context;
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

const TEMPLATE: &str = include_str!("../templates/page.html");

/// A page. All text in it is escaped, wherever it came from; figures alone are taken as they are.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Page {
    /// Title of the page.
    pub title: String,
    /// One line below the title.
    pub lead: String,
    /// What it comes to, where there is a verdict.
    pub badge: Option<Badge>,
    /// Whether its pictures take the colours of the reader's theme; others stay on white.
    pub themed: bool,
    /// Its parts, in order.
    pub sections: Vec<Section>,
    /// The last line.
    pub footer: String,
}

/// A grade and what it means.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Badge {
    /// A, B or C.
    pub grade: String,
    /// The grade in a few words.
    pub title: String,
    /// One sentence.
    pub words: String,
}

/// A part of a page.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Section {
    /// What stands above it.
    pub heading: String,
    /// What it is made of, in order.
    pub blocks: Vec<Block>,
}

/// What a section is made of.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Block {
    /// A paragraph.
    Text {
        /// Text of the line.
        text: String,
    },
    /// A heading below that of the section.
    Heading {
        /// What it says.
        text: String,
    },
    /// Short lines.
    List {
        /// One a line.
        items: Vec<String>,
    },
    /// Rows of cells.
    Table(Table),
    /// Rows of cells that are seen when they are asked for.
    Folded(Table),
    /// Text as a terminal takes it.
    Code {
        /// What it says.
        text: String,
    },
    /// A picture.
    Figure {
        /// What is drawn.
        svg: String,
        /// What stands below it.
        caption: String,
    },
    /// Pictures side by side, as many as there is room for.
    Gallery {
        /// Each with its name.
        pictures: Vec<Picture>,
        /// What their lines mean.
        keys: Vec<Key>,
        /// What stands below them.
        caption: String,
    },
}

/// One picture of several.
#[derive(Debug, Clone, Serialize)]
pub struct Picture {
    /// What is drawn.
    pub svg: String,
    /// What it shows, for those who hear the page.
    pub name: String,
}

/// What a line of a picture means.
#[derive(Debug, Clone, Serialize)]
pub struct Key {
    /// As HTML writes it.
    pub colour: String,
    /// How the line is broken, as SVG writes it; empty if it is not.
    pub dash: String,
    /// Label of the row.
    pub label: String,
}

/// A table; the first column is text, the others are set flush right where they are numbers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// What stands above it.
    pub caption: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// Whether cells after the first are numbers.
    pub numeric: bool,
}

impl Section {
    /// One without content.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text { text: text.into() });
    }

    /// Adds a heading below its own.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading { text: text.into() });
    }

    /// Adds lines, where there are any.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.blocks.push(Block::List { items });
        }
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a table that is seen when it is asked for.
    pub fn folded(&mut self, table: Table) {
        self.blocks.push(Block::Folded(table));
    }

    /// Adds text as a terminal takes it.
    pub fn code(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Code { text: text.into() });
    }

    /// Adds pictures side by side.
    pub fn gallery(&mut self, pictures: Vec<Picture>, keys: Vec<Key>, caption: impl Into<String>) {
        self.blocks.push(Block::Gallery { pictures, keys, caption: caption.into() });
    }

    /// Adds a picture.
    pub fn figure(&mut self, svg: &str, caption: impl Into<String>) {
        self.blocks.push(Block::Figure { svg: svg.to_owned(), caption: caption.into() });
    }
}

impl Page {
    /// The page as HTML.
    ///
    /// # Errors
    /// If the template fails, which is a mistake in this program.
    pub fn to_html(&self) -> anyhow::Result<String> {
        let mut page = self.clone();
        page.tell_figures_apart();
        let mut environment = Environment::new();
        // Escaping goes by the name: it is on for *.html alone.
        environment.add_template("page.html", TEMPLATE)?;
        let template = environment.get_template("page.html")?;
        template.render(Serde(&page)).context("the report cannot be made")
    }

    /// Ids must be unique on a page, and every figure counts its own from the start. Each has a name, for those who hear the page.
    fn tell_figures_apart(&mut self) {
        let blocks = self.sections.iter_mut().flat_map(|section| &mut section.blocks);
        let figures = blocks.flat_map(|block| match block {
            Block::Figure { svg, caption } => vec![(svg, caption.as_str())],
            Block::Gallery { pictures, .. } => {
                pictures.iter_mut().map(|picture| (&mut picture.svg, picture.name.as_str())).collect()
            }
            _ => Vec::new(),
        });
        for (i, (svg, name)) in figures.enumerate() {
            let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            *svg = svg
                .replacen("<svg ", &format!("<svg aria-label=\"{name}\" "), 1)
                .replace(" id=\"", &format!(" id=\"f{i}-"))
                .replace("url(#", &format!("url(#f{i}-"))
                .replace("href=\"#", &format!("href=\"#f{i}-"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_data_is_escaped() {
        let nasty = "<script>alert(\"x\")</script> & 'y'";
        let mut section = Section::new(nasty);
        section.text(nasty);
        section.list(vec![nasty.to_owned()]);
        let row = vec![nasty.to_owned(), nasty.to_owned()];
        section.table(Table {
            caption: nasty.to_owned(),
            header: row.clone(),
            rows: vec![row],
            numeric: true,
        });
        section.code(nasty);
        section.figure("<svg><g/></svg>", nasty);
        let picture = Picture { svg: "<svg >".to_owned(), name: nasty.to_owned() };
        section.gallery(vec![picture], Vec::new(), nasty);
        let page = Page {
            title: nasty.to_owned(),
            lead: nasty.to_owned(),
            themed: true,
            badge: Some(Badge { grade: nasty.to_owned(), title: nasty.to_owned(), words: nasty.to_owned() }),
            sections: vec![section],
            footer: nasty.to_owned(),
        };
        let html = page.to_html().unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;") && html.contains("<svg><g/></svg>"));
    }

    #[test]
    fn figures_keep_their_ids_to_themselves() {
        let mut section = Section::new("two");
        for _ in 0..2 {
            section.figure("<svg><clipPath id=\"c\"/><g clip-path=\"url(#c)\"/></svg>", "");
        }
        let html = Page { sections: vec![section], ..Page::default() }.to_html().unwrap();
        assert_eq!(html.matches("id=\"f0-c\"").count(), 1);
        assert!(html.contains("url(#f1-c)"));
    }
}
