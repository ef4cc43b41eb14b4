/** A type of the web platform that the declarations of structured-headers use. */
type BufferSource = ArrayBufferView | ArrayBuffer;
