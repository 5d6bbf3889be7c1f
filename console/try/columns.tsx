/** A row of a table, with a field for each of its columns. */

interface ColumnsOptions {
  readonly names: readonly string[];
  /** JSON of the row. */
  readonly text: string;
  readonly onText: (text: string) => void;
}

export function Columns({ names, text, onText }: ColumnsOptions) {
  const cells = text.replace(/^\s*\[|\]\s*$/g, '').split(',');
  const set = (place: number, value: string) => {
    // A comma would be the next column's.
    const next = names.map((_, i) => (i === place ? value.replaceAll(',', '.') : (cells[i] ?? '').trim()));
    onText(`[${next.map((cell) => cell || 'null').join(', ')}]`);
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
              onInput={(event) => set(i, event.currentTarget.value)}
            />
          </label>
        );
      })}
    </div>
  );
}
