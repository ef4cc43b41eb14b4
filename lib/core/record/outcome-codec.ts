/**
 * Serializes what the operation of a call or message returns, and deserializes it for every retry. The first caller,
 * too, gets the deserialized value.
 */
export interface OutcomeCodec {
  /**
   * Stored with every outcome, to recognise one that another codec has written. Short and stable. `json` and
   * `messagepack` are reserved for the codecs of this package.
   */
  readonly name: string;
  /**
   * Serializes a value. Not called for a value that is bytes or `undefined`.
   *
   * @throws any error for a value that cannot be expressed without loss. The caller sees the message of a
   * {@link ValueNotStorableError}; of any other error, only that it was thrown.
   */
  encode(value: unknown): Uint8Array;
  /**
   * Deserializes what {@link encode} has written, in this process or another one.
   *
   * @param bytes - may be shared with concurrent readers: the value must not refer to them.
   */
  decode(bytes: Uint8Array): unknown;
}
