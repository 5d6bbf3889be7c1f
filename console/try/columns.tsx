/** A row of a table, with a field for each of its columns. A row that is pasted fills the fields from there on. */
import { ONE_OR_MORE } from './numbers.ts';

interface ColumnsOptions {
  readonly names: readonly string[];
  /** A list in JSON, or the cells with tabs between them. */
  readonly text: string;
  readonly onText: (text: string) => void;
}

export function Columns({ names, text, onText }: ColumnsOptions) {
  const bare = text.replace(/^\s*\[|\]\s*$/g, '');
  const cells = names.length === 1 ? [bare] : bare.split(bare.includes('\t') ? '\t' : ',');
  const set = (place: number, values: readonly string[]) => {
    const next = names.map((_, i) => values[i - place] ?? cells[i] ?? '');
    // With a tab behind it a decimal comma stays in its cell, and is refused there.
    onText(next.map((cell) => cell.trim() || 'null').join('\t'));
  };
  const paste = (place: number, event: ClipboardEvent) => {
    const pasted = event.clipboardData?.getData('text').trim() ?? '';
    const values = pasted.split(/ *[,\t] *|\s+/);
    if (ONE_OR_MORE.test(pasted) || values.length < 2 || values.length > names.length - place) return;
    event.preventDefault();
    set(place, values);
  };
  return (
    <div class="cells">
      {names.map((name, i) => {
        const cell = (cells[i] ?? '').trim();
        return (
          <label key={i}>
            <span>{name}</span>
            <input
              type="text"
              inputMode="decimal"
              value={cell === 'null' ? '' : cell}
              onPaste={(event) => paste(i, event)}
              onInput={(event) => set(i, [event.currentTarget.value])}
            />
          </label>
        );
      })}
    </div>
  );
}
