import BackgroundTasks
import Foundation
import Security

/// The job of the background. Info.plist has its name under BGTaskSchedulerPermittedIdentifiers.
public enum Job {
    static let name = "riffle.sync"

    /// Has the system run the device's sync. Call it before the app's launch ends.
    public static func register(_ device: Riffle) {
        BGTaskScheduler.shared.register(forTaskWithIdentifier: name, using: nil) { task in
            device.sync()
            task.setTaskCompleted(success: true)
        }
    }

    /// Asks for a run at that time (ms since 1970) or later; the system decides when.
    static func wake(at ms: Int64) {
        let request = BGAppRefreshTaskRequest(identifier: name)
        request.earliestBeginDate = Date(timeIntervalSince1970: Double(ms) / 1000)
        try? BGTaskScheduler.shared.submit(request)
    }
}

/// The seed of the device's key. The Secure Enclave has no Ed25519; the keychain's own key is in it.
enum Keychain {
    static func of(_ name: String) -> [CFString: Any] {
        [kSecClass: kSecClassGenericPassword, kSecAttrService: "riffle", kSecAttrAccount: name]
    }

    static func add(_ name: String, _ seed: Data) throws {
        var item = of(name)
        item[kSecValueData] = seed
        item[kSecAttrAccessible] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        guard SecItemAdd(item as CFDictionary, nil) == errSecSuccess else {
            throw RiffleError.system("the keychain takes no key")
        }
    }

    static func get(_ name: String) throws -> Data {
        var item = of(name), found: CFTypeRef?
        item[kSecReturnData] = true
        guard SecItemCopyMatching(item as CFDictionary, &found) == errSecSuccess, let seed = found as? Data else {
            throw RiffleError.system("the keychain is shut, or has no key of this device")
        }
        return seed
    }
}
