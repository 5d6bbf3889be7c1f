/**
 * Connections over which parts of objects are read. Each has one buffer, into which the system puts all that arrives. `node:http`
 * makes a new one for each 64 KiB, and of 100 MB takes three times the processor time. Of HTTP only what S3 answers to such a
 * request is understood.
 */
import { connect, isIP, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { asError } from '../contract/errors.ts';

/** Takes the bytes of an object as they arrive. What it throws is thrown to the caller. */
export interface ByteWriter {
  /** Called before the first byte of each attempt, with the ETag of the object. */
  readonly restart: (etag: string | undefined) => void;
  /** @param bytes valid during the call only */
  readonly write: (bytes: Uint8Array) => void;
}

/** The most that one call of the system hands over. */
const BUFFER_BYTES = 128 * 1024;
/** The limit of status and headers of an answer. */
const HEAD_BYTES = 16 * 1024;
/** S3 answers within a tenth of a second; the SDK keeps the rest of the time. */
const IDLE_MS = 2_000;
/**
 * S3 closes a connection that was not used for some seconds. What was closed while this environment was frozen may look open,
 * and a request on it would get no answer.
 */
const KEPT_MS = 10_000;

/** Its cause is the writer's error. */
export class WriterError extends Error {}

/** S3 answered, but not with the part: the same request would get the same answer. */
export class OtherAnswer extends Error {}

/** Connections that are kept open, by the origin they lead to: an emulator's needs no TLS. */
const kept = new Map<string, Set<Connection>>();
/** With it another connection to the same origin needs no second check of its certificate. */
const sessions = new Map<string, Buffer>();

export class Connection {
  readonly #origin: string;
  readonly #socket: Socket;
  #answer: Answer | undefined;
  #fail: (error: Error) => void = () => undefined;
  #isOpen = true;
  #keptAt = 0;
  /** True if it has answered before. */
  isReused = false;

  /** A connection that was kept, or a new one. */
  static to({ protocol, hostname, port, origin }: URL): Connection {
    for (const connection of kept.get(origin) ?? []) if (connection.#take()) return connection;
    const isTls = protocol === 'https:';
    const host = hostname.replaceAll(/[[\]]/g, '');
    const address = { host, port: Number(port) || (isTls ? 443 : 80) };
    // An address has no name.
    const names = { servername: isIP(host) ? '' : host, ALPNProtocols: ['http/1.1'] };
    const session = sessions.get(origin);
    return new Connection(origin, (onread) => {
      const plain = { ...address, onread };
      return isTls ? connectTls({ ...plain, ...names, ...(session ? { session } : {}) }) : connect(plain);
    });
  }

  private constructor(origin: string, open: (onread: OnReadOpts) => Socket) {
    this.#origin = origin;
    const buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
    this.#socket = open({
      buffer,
      callback: (bytes) => {
        this.#arrive(buffer.subarray(0, bytes));
        return true;
      },
    });
    this.#socket.setNoDelay(true);
    this.#socket.on('error', (error) => this.close(error));
    this.#socket.on('close', () => this.close(new Error('the connection was closed')));
    this.#socket.on('timeout', () => this.close(new Error(`silent for ${IDLE_MS} ms`)));
    this.#socket.on('session', (session: Buffer) => sessions.set(origin, session));
  }

  /**
   * Sends a request for at most `most` bytes and reads its answer.
   * @throws WriterError; OtherAnswer; errors of the connection, which is closed then; the signal's reason
   */
  async read(
    request: string,
    most: number,
    writer: ByteWriter,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const onAbort = () => this.close(asError(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      signal.throwIfAborted();
      const answer = new Answer(most, writer);
      await new Promise<void>((resolve, reject) => {
        this.#answer = answer;
        answer.onEnd = resolve;
        this.#fail = reject;
        this.#socket.setTimeout(IDLE_MS);
        this.#socket.write(request);
      });
      this.#keep(answer);
      return answer.etag;
    } catch (error) {
      this.close(asError(error));
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  close(error: Error): void {
    this.#isOpen = false;
    kept.get(this.#origin)?.delete(this);
    this.#fail(error);
    this.#socket.destroy();
  }

  #arrive(bytes: Buffer): void {
    try {
      if (!this.#answer) throw new Error('bytes that nothing asked for');
      this.#answer.take(bytes);
    } catch (error) {
      this.close(asError(error));
    }
  }

  #keep({ isLast }: Answer): void {
    this.#answer = undefined;
    this.#fail = () => undefined;
    if (isLast) this.close(new Error('S3 closes it'));
    if (!this.#isOpen) return;
    this.#keptAt = Date.now();
    this.#socket.setTimeout(KEPT_MS);
    // The process may end while it is kept.
    this.#socket.unref();
    const others = kept.get(this.#origin) ?? new Set();
    kept.set(this.#origin, others.add(this));
  }

  /** @returns false for one that may be closed without this process having been told */
  #take(): boolean {
    kept.get(this.#origin)?.delete(this);
    if (Math.abs(Date.now() - this.#keptAt) > KEPT_MS) this.close(new Error('kept for too long'));
    else this.#socket.ref();
    this.isReused = true;
    return this.#isOpen;
  }
}

/** One answer: `206`, headers with the length, and as many bytes. */
class Answer {
  etag: string | undefined;
  /** True if S3 takes no other request on this connection. */
  isLast = false;
  onEnd: () => void = () => undefined;
  readonly #most: number;
  readonly #writer: ByteWriter;
  #head: Buffer | undefined = Buffer.alloc(0);
  #rest = 0;

  constructor(most: number, writer: ByteWriter) {
    this.#most = most;
    this.#writer = writer;
  }

  /** @throws WriterError, OtherAnswer */
  take(bytes: Buffer): void {
    const body = this.#head ? this.#takeHead(Buffer.concat([this.#head, bytes])) : bytes;
    if (!body) return;
    if (body.length > this.#rest) throw new OtherAnswer('more bytes than were announced');
    this.#rest -= body.length;
    if (body.length > 0) this.#pass(() => this.#writer.write(body));
    if (this.#rest === 0) this.onEnd();
  }

  /** @returns the bytes behind the head; undefined when there is more of it to come */
  #takeHead(head: Buffer): Buffer | undefined {
    const end = head.indexOf('\r\n\r\n');
    if (end < 0 && head.length <= HEAD_BYTES) {
      this.#head = head;
      return undefined;
    }
    const [status = '', ...lines] = head.toString('latin1', 0, end).split('\r\n');
    const headers = new Map(lines.map((line) => [nameOf(line), valueOf(line)]));
    const length = headers.get('content-length') ?? '';
    // A server that ignores the range answers 200, with the whole object.
    const isPart = end >= 0 && status.startsWith('HTTP/1.1 206') && /^\d{1,15}$/.test(length);
    if (
      !isPart ||
      headers.size < lines.length ||
      headers.has('transfer-encoding') ||
      Number(length) > this.#most
    )
      throw new OtherAnswer(`not a part of an object: ${status}`);
    this.#head = undefined;
    this.#rest = Number(length);
    this.isLast = headers.get('connection')?.toLowerCase() === 'close';
    this.etag = headers.get('etag');
    this.#pass(() => this.#writer.restart(this.etag));
    return head.subarray(end + 4);
  }

  #pass(work: () => void): void {
    try {
      work();
    } catch (cause) {
      throw new WriterError('the writer failed', { cause });
    }
  }
}

const nameOf = (line: string) => line.replace(/:.*/s, '').toLowerCase();
const valueOf = (line: string) => line.replace(/^.*?:/s, '').trim();
