/** SHA-256 with the interface that the AWS SDK's signer asks for. */
import { createHash, createHmac } from 'node:crypto';

export class Sha256 {
  #hash;

  /** @param secret for an HMAC */
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret as Uint8Array);
  }

  update(data: Uint8Array): void {
    this.#hash.update(data);
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {}
}
