/** Serializes what a call or message returns. Every caller, including the first, gets the deserialized value. */
export interface OutcomeCodec {
  /**
   * Stored with every outcome, to recognise another codec's. Short and stable; `json` and `messagepack` are reserved.
   */
  readonly name: string;
  /**
   * Serializes a value that is neither bytes nor `undefined`.
   * @throws any error for a value that cannot be expressed without loss. The caller sees its message only if it is a
   * {@link ValueNotStorableError}.
   */
  encode(value: unknown): Uint8Array;
  /**
   * Deserializes what {@link encode} wrote. The value must not refer to the bytes: concurrent readers may share them.
   */
  decode(bytes: Uint8Array): unknown;
}
