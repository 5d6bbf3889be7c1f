/** How a share of the records is written. */
export function percentText(share: number): string {
  return `${Number((share * 100).toPrecision(3))} %`;
}
