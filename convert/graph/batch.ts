/** The free dimension of a batch. */
export const BATCH = 'N';

/** Thrown when a model cannot be converted with a free batch. It never leaves the converter. */
export class BatchBound extends Error {}
