/**
 * How the values of calls and messages are written down: what an operation returned, and what is read again for
 * every repetition. The first caller, too, gets a value as it was read again.
 */
export interface OutcomeCodec {
  /**
   * Stands in every outcome that the codec has written, so that another codec's is recognised: short, stable, and none
   * of `json` and `messagepack`, which are this package's own.
   */
  readonly name: string;
  /**
   * Writes a value. Bytes and `undefined`, where they are the whole value, are written without the codec.
   *
   * @throws any error for what cannot be expressed without loss. Of a {@link ValueNotStorableError} the message is shown
   * to the caller, of another one only that there was one.
   */
  encode(value: unknown): Uint8Array;
  /**
   * Reads what {@link encode} has written, in this process or in another one.
   *
   * @param bytes - may be read by others at the same time: what the value keeps of them must be a copy.
   */
  decode(bytes: Uint8Array): unknown;
}
