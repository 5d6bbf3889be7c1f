/** Writes a Markdown table. A bar in a cell is escaped, because it would end the cell. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(heads), `|${heads.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');
}

export const code = (text: string): string => `\`${text}\``;

export const thousands = (value: number): string => value.toLocaleString('en-US');
