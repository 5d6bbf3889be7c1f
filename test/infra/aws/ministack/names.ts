/**
 * The name server of a namespace in which every name of AWS leads to an emulated account on this machine, so that clients
 * and functions use the addresses that they would use on AWS.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { Hooks } from '../../../support/runner.ts';

const HEADER_BYTES = 12;
const TYPE_A = 1;
const NAME_UNKNOWN = 3;

/** Answers on port 53 of 127.0.0.1; `domain` and every name below it are 127.0.0.1, and no other name exists. */
export async function startNames(t: Hooks, domain: string): Promise<void> {
  const socket = createSocket('udp4');
  socket.on('message', (question, { port, address }) => {
    socket.send(answerTo(question, domain), port, address);
  });
  socket.bind(53, '127.0.0.1');
  await once(socket, 'listening');
  t.after(async () => void socket.close());
}

/** One question, as every resolver sends it; the answer names it by its offset. */
function answerTo(question: Buffer, domain: string): Buffer {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const name = labels.join('.').toLowerCase();
  const isKnown = name === domain || name.endsWith(`.${domain}`);
  const end = at + 5;
  const isAddress = isKnown && question.readUInt16BE(at + 1) === TYPE_A;
  const header = Buffer.from(question.subarray(0, HEADER_BYTES));
  header.writeUInt16BE(0x8180 | (isKnown ? 0 : NAME_UNKNOWN), 2);
  header.writeUInt16BE(isAddress ? 1 : 0, 6);
  header.fill(0, 8);
  const record = [0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1];
  return Buffer.concat([
    header,
    question.subarray(HEADER_BYTES, end),
    ...(isAddress ? [Buffer.from(record)] : []),
  ]);
}
