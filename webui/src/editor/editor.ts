/** The editor itself: loaded when somebody edits, for it is as large as the rest of the page. */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, type Diagnostic as Mark, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Text } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import type { Diagnostic } from "../api/generated/results";
import { wgsl } from "./wgsl-language";

export interface Handlers {
  change: (text: string) => void;
  run: () => void;
  save: () => void;
}

export interface Editor {
  /** Another text in the place of all of it; the same one does nothing. */
  setText(text: string): void;
  mark(diagnostics: readonly Diagnostic[]): void;
  /** Show what differs from another text, in place; null: nothing. */
  compare(original: string | null): void;
  goTo(line: number): void;
  focus(): void;
  close(): void;
}

export function openEditor(
  parent: HTMLElement,
  file: { name: string; text: string },
  handlers: Handlers,
): Editor {
  const diff = new Compartment();
  const did = (work: () => void) => () => {
    work();
    return true;
  };
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: file.text,
      extensions: [
        // Before all other keys: Ctrl-Enter would else insert a line.
        keymap.of([
          { key: "Mod-Enter", run: did(() => handlers.run()) },
          { key: "Mod-s", run: did(() => handlers.save()) },
        ]),
        lineNumbers(),
        lintGutter(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        history(),
        drawSelection(),
        bracketMatching(),
        indentOnInput(),
        indentUnit.of("  "),
        search({ top: true }),
        highlightSelectionMatches(),
        // A file keeps its ends of lines.
        file.text.includes("\r\n") ? EditorState.lineSeparator.of("\r\n") : [],
        // Escape, then Tab, leaves the editor.
        keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
        file.name.endsWith(".wgsl") ? wgsl : [],
        diff.of([]),
        // Said, though what can be written in takes the focus anyway: not every reader of pages knows that.
        EditorView.contentAttributes.of({ "aria-label": `Edit ${file.name}`, tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) handlers.change(update.state.sliceDoc());
        }),
        THEME,
      ],
    }),
  });
  return {
    setText(text) {
      if (text === view.state.sliceDoc()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    mark(diagnostics) {
      const marks = diagnostics.flatMap((item) => markOf(view.state.doc, item));
      view.dispatch(setDiagnostics(view.state, marks));
    },
    compare(original) {
      const found =
        original === null
          ? []
          : unifiedMergeView({
              original,
              mergeControls: false,
              collapseUnchanged: { margin: 3, minSize: 8 },
            });
      view.dispatch({ effects: diff.reconfigure(found) });
    },
    goTo(line) {
      const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines)).from;
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}

/** At the word of which a compiler speaks; lines that are no more are left out. */
function markOf(doc: Text, item: Diagnostic): Mark[] {
  if (item.line < 1 || item.line > doc.lines) return [];
  const line = doc.line(item.line);
  const from = Math.min(line.from + Math.max(item.column - 1, 0), line.to);
  const word = /^\w+/.exec(doc.sliceString(from, line.to))?.[0].length ?? 1;
  const severity = item.severity === "error" || item.severity === "warning" ? item.severity : "info";
  return [{ from, to: Math.min(from + word, line.to), severity, message: item.message }];
}

const THEME = EditorView.theme({
  "&": { fontSize: "12px", height: "100%", backgroundColor: "var(--card)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    backgroundColor: "var(--sunk)",
    color: "var(--muted)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": {
    backgroundColor: "color-mix(in srgb, var(--accent) 8%, transparent)",
  },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)",
  },
  ".cm-panels, .cm-tooltip": {
    backgroundColor: "var(--card)",
    color: "var(--text)",
    borderColor: "var(--line-strong)",
  },
  ".cm-deletedChunk": { backgroundColor: "var(--fail-soft)" },
  "&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine": { backgroundColor: "var(--pass-soft)" },
  "&.cm-merge-b .cm-changedText": { background: "color-mix(in srgb, var(--pass) 30%, transparent)" },
  ".cm-deletedChunk .cm-deletedText": { background: "color-mix(in srgb, var(--fail) 30%, transparent)" },
  ".cm-collapsedLines": { background: "var(--sunk)", color: "var(--muted)" },
});
