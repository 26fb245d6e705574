#include <hdf5.h>

// HDF5 defines its predefined types, classes and flags as macros that call H5open(); Swift imports none of them.
static inline hid_t chdf5_type_u8(void)  { return H5T_STD_U8LE; }
static inline hid_t chdf5_type_i8(void)  { return H5T_STD_I8LE; }
static inline hid_t chdf5_type_u16(void) { return H5T_STD_U16LE; }
static inline hid_t chdf5_type_i32(void) { return H5T_STD_I32LE; }
static inline hid_t chdf5_type_i64(void) { return H5T_STD_I64LE; }
static inline hid_t chdf5_type_f32(void) { return H5T_IEEE_F32LE; }
static inline hid_t chdf5_type_f64(void) { return H5T_IEEE_F64LE; }
static inline hid_t chdf5_type_string(void) { return H5T_C_S1; }
static inline size_t chdf5_variable(void) { return H5T_VARIABLE; }

static inline hid_t chdf5_class_file_create(void)    { return H5P_FILE_CREATE; }
static inline hid_t chdf5_class_file_access(void)    { return H5P_FILE_ACCESS; }
static inline hid_t chdf5_class_group_create(void)   { return H5P_GROUP_CREATE; }
static inline hid_t chdf5_class_dataset_create(void) { return H5P_DATASET_CREATE; }
static inline hid_t chdf5_class_group_access(void)   { return H5P_GROUP_ACCESS; }
static inline hid_t chdf5_class_dataset_access(void) { return H5P_DATASET_ACCESS; }

static inline unsigned chdf5_acc_exclusive(void) { return H5F_ACC_EXCL; }
static inline unsigned chdf5_acc_readonly(void)  { return H5F_ACC_RDONLY; }
static inline unsigned chdf5_acc_readwrite(void) { return H5F_ACC_RDWR; }

// Swift imports these as Int32, but the functions take hid_t (Int64).
static const hid_t chdf5_default = H5P_DEFAULT;
static const hid_t chdf5_all = H5S_ALL;
