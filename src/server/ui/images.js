// Pictures that are attached: small enough to be kept and sent, of a kind that a server reads.

const AS_THEY_ARE = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
const LARGEST_SIDE = 2048;
const LARGEST_BYTES = 1500000;

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result));
    reader.addEventListener('error', () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

// The file as a data URL, drawn anew where it is too large or of another kind. Throws where this browser cannot read it.
export async function readImage(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LARGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  if (scale === 1 && file.size <= LARGEST_BYTES && AS_THEY_ARE.includes(file.type)) return dataUrl(file);
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext('2d');
  context.fillStyle = '#fff';  // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/jpeg', 0.9);
}
