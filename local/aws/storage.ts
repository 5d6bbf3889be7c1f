/**
 * The stores of fauxqs, loaded from and written to a data folder. fauxqs 2.4.1 exports only a server that listens on
 * all interfaces, and its persistence loses a message whose visibility is set to 0 (it writes NULL to a NOT NULL
 * column). So its parts are used directly and what it writes about deliveries is replaced; the version is pinned, and
 * test/local/aws/aws.test.ts checks each part.
 */
import { mkdirSync } from 'node:fs';
import { badConfig } from '../../lib/contract/errors.ts';
import { OrderNumbers, timeStored, withMoments } from './moments.ts';
import { withReadyLine } from './ready-line.ts';
import type { SqsQueue, Stores } from './stores.ts';

/** Characters that SQS refuses in a message. */
const NO_CHARACTER = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/u;
const MIN_KEPT_BYTES = 1024 * 1024;
const KEPT_BODY_MS = 5000;
/** Pages of 4 kB. A checkpoint costs two fsyncs, and data that is deleted before one is never copied. */
const CHECKPOINT_PAGES = 4_000;

type Persistence = NonNullable<Stores['sqsStore']['persistence']>;

export interface Storage {
  readonly stores: Stores;
  /** Returns a received message as if it had not been received. */
  giveBack(queue: SqsQueue, receiptHandle: string): void;
  /** Runs `write` in one transaction. */
  transaction<T>(write: () => T): T;
  /** At least the number of every message, by which messages are ordered. */
  latestOrder(): number;
  /** Updates the port in stored queue URLs, which is that of the last run. */
  renameQueues(queueUrlOf: (name: string) => string): void;
  close(): void;
}

export async function openStorage(dataDir: string | undefined): Promise<Storage> {
  const [{ SqsStore }, { SnsStore }, { S3Store }, { INVALID_MESSAGE_BODY_CHAR: refused }] = await Promise.all(
    [
      part<{ SqsStore: new () => Stores['sqsStore'] }>('sqs/sqsStore.js'),
      part<{ SnsStore: new () => Stores['snsStore'] }>('sns/snsStore.js'),
      part<{ S3Store: new () => Stores['s3Store'] }>('s3/s3Store.js'),
      part<{ INVALID_MESSAGE_BODY_CHAR: RegExp }>('sqs/sqsTypes.js'),
    ],
  );
  // That of fauxqs looks at units of UTF-16, and so refuses emoji, which AWS takes.
  refused.test = (text) => NO_CHARACTER.test(text);
  const stores = { sqsStore: new SqsStore(), snsStore: new SnsStore(), s3Store: new S3Store() };
  const createQueue = stores.sqsStore.createQueue.bind(stores.sqsStore);
  let numbers = new OrderNumbers(0);
  stores.sqsStore.createQueue = (...facts) => withMoments(withReadyLine(createQueue(...facts)), numbers);
  // Without a host, fauxqs derives queue URLs from the Host header, the address that the caller used.
  stores.sqsStore.host = '';
  const rename = (queueUrlOf: (name: string) => string) => renameQueues(stores.sqsStore, queueUrlOf);
  if (dataDir === undefined) {
    return {
      stores,
      giveBack: giveBackInMemory,
      transaction: (write) => write(),
      latestOrder: () => numbers.latest(),
      renameQueues: rename,
      close: () => undefined,
    };
  }
  const persistence = await openPersistence(dataDir);
  numbers = new OrderNumbers(lastOrder(persistence));
  persistence.load(stores.sqsStore, stores.snsStore, stores.s3Store);
  stores.sqsStore.persistence = persistence;
  stores.snsStore.persistence = persistence;
  stores.s3Store.persistence = persistence;
  for (const queue of stores.sqsStore.allQueues()) {
    timeStored(queue);
    queue.persistence = persistence;
  }
  keepLastBody(persistence, stores.s3Store);
  const uncount = persistence['db'].prepare('UPDATE deliveries SET count = count - 1 WHERE message_id = ?');
  return {
    stores,
    giveBack: (queue, handle) => {
      const messageId = giveBackInMemory(queue, handle);
      if (messageId !== undefined) uncount.run(messageId);
    },
    transaction: <T>(write: () => T): T => {
      let result: T | undefined;
      persistence['transaction'](() => {
        result = write();
      });
      return result as T;
    },
    latestOrder: () => numbers.latest(),
    renameQueues: rename,
    close: () => persistence.close(),
  };
}

async function openPersistence(dataDir: string): Promise<Persistence> {
  const { PersistenceManager } = await part<{ PersistenceManager: new (dataDir: string) => Persistence }>(
    'persistence.js',
  );
  try {
    mkdirSync(dataDir, { recursive: true });
    const persistence = new PersistenceManager(dataDir);
    const db = persistence['db'];
    // One stack per folder: the lock ends with the process, so it never blocks the next start. In WAL mode NORMAL
    // survives kill -9 and saves an fsync per message; only a power cut loses the last ones.
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; COMMIT');
    db.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    countApart(persistence);
    return persistence;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const advice = /locked|busy/i.test(reason)
      ? `data folder ${dataDir} is in use by another running stack; stop it or choose another folder`
      : `data folder ${dataDir} cannot be opened: ${reason}`;
    throw badConfig(advice, { cause: error });
  }
}

/**
 * Counts deliveries in a small table of their own, which joins the messages at the next start: to write them to a message's
 * row, SQLite writes the whole row again, with its body. Receipt handles are not written at all, because the receivers from before
 * a restart are gone; with them, their messages would stay hidden for the whole visibility timeout.
 */
function countApart(persistence: Persistence): void {
  const db = persistence['db'];
  db.exec(`
    BEGIN;
    CREATE TABLE IF NOT EXISTS deliveries (message_id TEXT PRIMARY KEY, count INTEGER, first INTEGER) WITHOUT ROWID;
    UPDATE sqs_messages SET approximate_receive_count = count, approximate_first_receive_timestamp = first
      FROM deliveries WHERE deliveries.message_id = sqs_messages.message_id;
    DELETE FROM deliveries;
    UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL WHERE receipt_handle IS NOT NULL;
    COMMIT`);
  const count = db.prepare('INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?)');
  const forget = db.prepare('DELETE FROM deliveries WHERE message_id = ?');
  persistence.updateMessageInflight = (messageId, _handle, _deadline, times, first) =>
    void count.run(messageId, times, first ?? null);
  persistence.updateMessageReady = () => undefined;
  const deleteMessage = persistence.deleteMessage.bind(persistence);
  persistence.deleteMessage = (messageId) => {
    deleteMessage(messageId);
    forget.run(messageId);
  };
}

/**
 * The last number that a message was given, which outlives the message: numbers grow although the clock is set back. It is
 * kept with each message, in the same write.
 */
function lastOrder(persistence: Persistence): number {
  const db = persistence['db'];
  db.exec(`
    BEGIN;
    CREATE TABLE IF NOT EXISTS order_numbers (last INTEGER NOT NULL);
    INSERT INTO order_numbers SELECT coalesce(max(sent_timestamp), 0) FROM sqs_messages
      WHERE NOT EXISTS (SELECT 1 FROM order_numbers);
    CREATE TRIGGER IF NOT EXISTS keep_order AFTER INSERT ON sqs_messages
      WHEN CAST(NEW.sequence_number AS INTEGER) > (SELECT last FROM order_numbers)
      BEGIN UPDATE order_numbers SET last = CAST(NEW.sequence_number AS INTEGER); END;
    COMMIT`);
  const row = db.prepare('SELECT last FROM order_numbers').get() as { last: number };
  return row.last;
}

/**
 * A model is read in many parallel ranges, and fauxqs reads the whole object from SQLite for each: 12 ranges of a 100
 * MB object took 4.8 s. So the last large body is cached briefly; its etag shows whether it is stale.
 */
function keepLastBody(persistence: Persistence, store: Stores['s3Store']): void {
  const readBody = persistence.readBody.bind(persistence);
  let last: { readonly name: string; readonly etag: string; readonly body: Buffer } | undefined;
  let timer: NodeJS.Timeout | undefined;
  persistence.readBody = (bucket, key) => {
    const { etag, contentLength } = store.headObject(bucket, key);
    if (contentLength < MIN_KEPT_BYTES) return readBody(bucket, key);
    const name = `${bucket}/${key}`;
    if (last?.name !== name || last.etag !== etag) last = { name, etag, body: readBody(bucket, key) };
    clearTimeout(timer);
    timer = setTimeout(() => {
      last = undefined;
    }, KEPT_BODY_MS).unref();
    return last.body;
  };
}

function giveBackInMemory(queue: SqsQueue, receiptHandle: string): string | undefined {
  const message = queue.inflightMessages.get(receiptHandle)?.message;
  if (message === undefined) return undefined;
  message.approximateReceiveCount -= 1;
  queue.changeVisibility(receiptHandle, 0);
  return message.messageId;
}

/** Bypasses the store's methods, which would delete the queue's stored messages. */
function renameQueues(store: Stores['sqsStore'], queueUrlOf: (name: string) => string): void {
  for (const queue of Array.from(store.allQueues())) {
    store['queues'].delete(queue.url);
    Object.assign(queue, { url: queueUrlOf(queue.name) });
    store['queues'].set(queue.url, queue);
  }
}

/** Loads a module that fauxqs does not export. */
export async function part<Module>(path: string): Promise<Module> {
  const module: Module = await import(new URL(path, import.meta.resolve('fauxqs')).href);
  return module;
}
