/** A type of the web platform, which the declarations of structured-headers speak of. */
type BufferSource = ArrayBufferView | ArrayBuffer;
