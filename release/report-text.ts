/** Sentences that the reports of a comparison and of a replay share. */

export interface AnswerSums {
  readonly records: number;
  /** Records with another shape, dtype or text. */
  readonly otherForm: number;
  /** As shares of the spread. */
  readonly median: number;
  readonly largest: number;
  /** Records whose first class differs; undefined for an output without classes. */
  readonly flips?: number | undefined;
}

/** @param place of the largest difference */
export function answersText({ records, otherForm, median, largest, flips }: AnswerSums, place = ''): string {
  const flipped = flips === undefined ? [] : [`first class differs in ${share(flips, records)}`];
  const formed = otherForm === 0 ? [] : [`another form in ${share(otherForm, records)}`];
  const distance = `differs by ${percent(median)} of the spread in the median, ${percent(largest)} at most${place}`;
  return [...flipped, ...formed, distance].join('; ');
}

export function share(part: number, whole: number): string {
  return `${part} of ${whole}${whole === 0 ? '' : ` (${percent(part / whole)})`}`;
}

export function percent(value: number): string {
  return `${Number((100 * value).toPrecision(3))} %`;
}
