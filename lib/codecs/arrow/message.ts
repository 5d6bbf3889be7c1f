/**
 * The numbers of framed Arrow IPC messages. Every message and buffer starts at a multiple of 8, because readers map
 * buffers as they lie and some refuse misaligned ones.
 */

/** Starts a message in the new framing; the old one starts with its length, which is never this large. */
export const CONTINUATION = 0xffff_ffff;
/** Continuation marker and metadata length. */
export const PREFIX_BYTES = 8;
/** Follows the last batch: the marker and a metadata length of 0. */
export const END_BYTES = 8;

export const SCHEMA = 1;
export const DICTIONARY_BATCH = 2;
export const RECORD_BATCH = 3;
/** Metadata V4 (Arrow 0.8, 2017) and V5 (1.0, 2020) lay out our types alike; older ones do not. */
export const V4 = 3;
export const V5 = 4;

export const align8 = (bytes: number): number => Math.ceil(bytes / 8) * 8;
