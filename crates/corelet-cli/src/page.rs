//! Pages: sections of text, tables and figures as one HTML file that needs no network.

use anyhow::Context;
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

const TEMPLATE: &str = include_str!("../templates/page.html");

/// A page. All text in it is escaped, wherever it came from; figures alone are taken as they are.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// One line below the title.
    pub lead: String,
    /// Its parts, in order.
    pub sections: Vec<Section>,
    /// The last line.
    pub footer: String,
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
        /// What it says.
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
    /// A picture.
    Figure {
        /// What is drawn.
        svg: String,
        /// What stands below it.
        caption: String,
    },
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

    /// Adds a picture.
    pub fn figure(&mut self, svg: &str, caption: impl Into<String>) {
        self.blocks.push(Block::Figure { svg: svg.to_owned(), caption: caption.into() });
    }
}

impl Page {
    /// The page as HTML.
    ///
    /// # Errors
    /// Where the template fails, which is a mistake in this program.
    pub fn to_html(&self) -> anyhow::Result<String> {
        let mut page = self.clone();
        page.tell_figures_apart();
        let mut environment = Environment::new();
        // Escaping goes by the name: it is on for *.html alone.
        environment.add_template("page.html", TEMPLATE)?;
        let template = environment.get_template("page.html")?;
        template.render(Serde(&page)).context("the report cannot be made")
    }

    /// Ids must be unique on a page, and every figure counts its own from the start.
    fn tell_figures_apart(&mut self) {
        let blocks = self.sections.iter_mut().flat_map(|section| &mut section.blocks);
        let figures = blocks.filter_map(|block| match block {
            Block::Figure { svg, .. } => Some(svg),
            _ => None,
        });
        for (i, svg) in figures.enumerate() {
            *svg = svg
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
        section.figure("<svg><g/></svg>", nasty);
        let page = Page {
            title: nasty.to_owned(),
            lead: nasty.to_owned(),
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
