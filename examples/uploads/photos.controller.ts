import { Body, Controller, Post, UploadedFile, UseInterceptors } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import { Idempotent } from 'nestjs-idempotency';
import { Album } from './album.js';
import { bucket } from './bucket.js';

@Controller('photos')
export class PhotosController {
  constructor(private readonly album: Album) {}

  // #region multer
  @Post()
  @Idempotent()
  @UseInterceptors(FileInterceptor('photo'))
  upload(@UploadedFile() photo: { buffer: Buffer }, @Body() { title }: { title: string }) {
    return this.album.add(title, photo.buffer.length);
  }
  // #endregion

  @Post('bucket')
  // #region bucket
  @Idempotent({
    fingerprint: ({ body }, context) => [body, context.switchToHttp().getRequest().file.etag],
  })
  @UseInterceptors(FileInterceptor('photo', { storage: bucket }))
  // #endregion
  uploadToBucket(@UploadedFile() photo: { size: number }, @Body() { title }: { title: string }) {
    return this.album.add(title, photo.size);
  }
}
