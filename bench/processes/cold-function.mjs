/**
 * In: a bundle's path and an event's file. Out: on the parent's channel, the answer of its handler.
 * Trap: it stands for Lambda's runtime, so it imports nothing but the bundle.
 */
import { readFileSync } from 'node:fs';

const [bundle, eventFile] = process.argv.slice(2);
const { handler } = await import(bundle);
const context = { getRemainingTimeInMillis: () => 29_000 };
const answer = await handler(JSON.parse(readFileSync(eventFile, 'utf8')), context);
process.send(answer, () => process.exit(0));
